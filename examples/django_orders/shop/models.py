from django.db import models


class Order(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    customer = models.CharField(max_length=40)
    cents = models.IntegerField()
    invoiced = models.BooleanField(default=False)
